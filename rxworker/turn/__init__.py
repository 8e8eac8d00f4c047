"""The stages of a turn: what each is given, the calls as a pipe of operators, and the answer of the model."""
