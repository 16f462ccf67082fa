"""The estimators, as scikit-learn and its users ask them."""
