"""What requests ask for, carried out on the store and by the intake."""
