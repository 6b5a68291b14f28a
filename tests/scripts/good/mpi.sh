#!/bin/bash
#SBATCH --ntasks=32
#SBATCH --mem-per-cpu=4G
#SBATCH --time=00:30:00
module load openmpi
mpirun ./solver input.nml
