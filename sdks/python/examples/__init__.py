"""Short programs that show the client where people schedule. Each is run by tests/test_examples.py."""
