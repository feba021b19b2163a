(sizes (Configuration 3) (Majority 3))
