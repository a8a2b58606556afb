"""The same for programs without asyncio: every call blocks, and a thread renews meanwhile."""
