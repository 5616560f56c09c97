"""The client of the HTTP API, its fake, and what is built on them."""
