"""Files that somebody might plant, each tried at the door where a user's file comes in."""
