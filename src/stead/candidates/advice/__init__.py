"""Which consumers to move so that a request fits more often: a plan, and a bound that no plan can beat."""
