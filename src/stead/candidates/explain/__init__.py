"""Why a request finds what it finds, as counts, and which change of it would find more."""
