"""The processes of ``stead serve``: the main process starts and monitors workers, and the workers serve requests."""
