class StackError(Exception):
    """Something that the person at the keyboard can act on; its text is one clear paragraph."""
