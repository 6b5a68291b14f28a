#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --time=3-00:00:00 --mem=1000G --cpus-per-task=96
#SBATCH --partition=h100 --qos=long --account=ai
set -e
export GPUS=8
MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
MASTER_PORT=6000
export MASTER_ADDR MASTER_PORT
srun bash -c 'torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 --node_rank=$SLURM_NODEID --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT pretrain.py --config "conf/7b.yaml"'
