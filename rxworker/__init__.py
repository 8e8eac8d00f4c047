"""rxworker: language model responses as observables, and a turn loop that any number of watchers can follow."""
