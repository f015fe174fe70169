"""The processes of ``stead serve``: the main one, which starts and watches workers, and the workers, which answer."""
