"""Login node, as the user: an experiment spec becomes an sbatch script. Imports only the leaves beside it."""
