"""The operations of Stead, without HTTP."""
