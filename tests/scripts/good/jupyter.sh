#!/bin/bash
#SBATCH --gpus=1
#SBATCH --mem=16G
#SBATCH --time=08:00:00
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
cat >"$HOME/jupyter-$SLURM_JOB_ID.txt" <<TXT
ssh -N -L 8888:$(hostname):$port ${USER}@login
#SBATCH is not read here
TXT
exec jupyter lab --no-browser --ip="$(hostname)" --port="$port"
