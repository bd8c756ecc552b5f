"""Events of a run in the words of protocols that front ends speak."""
