"""Random asyncio programs: built as data, interpreted by one flow, checked on an engine."""
