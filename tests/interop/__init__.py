"""Real torch and scikit-learn against the exact answers."""
