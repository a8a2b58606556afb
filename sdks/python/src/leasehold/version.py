"""The version: that of the server it was made with. A test compares it with the server's manifest."""

__version__ = "0.2.0"
