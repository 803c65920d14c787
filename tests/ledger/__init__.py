"""Operations, entries and replay."""
