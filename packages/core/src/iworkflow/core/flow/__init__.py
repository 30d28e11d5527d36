"""The flow loop and its driver: any asyncio program, crash-safe, on every engine."""
