"""MCDNN: variants of a model, and which of them runs where under budgets of energy and money."""
