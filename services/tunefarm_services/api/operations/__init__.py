"""Operations of the API on the store and the intake."""
