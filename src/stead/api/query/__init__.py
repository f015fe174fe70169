"""Query strings: text and microversion in, domain requests out."""
