"""Agreement of judges with people, with each other, and with themselves asked again."""
