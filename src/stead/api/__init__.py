"""The HTTP layer: microversions, headers and JSON. The packages below it know nothing of them."""
