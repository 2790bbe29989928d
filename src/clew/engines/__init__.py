"""How the values of many processes come together: one file for each way."""
