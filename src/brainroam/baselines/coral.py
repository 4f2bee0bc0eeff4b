"""CORAL: a GIN whose pooled embeddings have the same mean and covariance at every training site.

    min  mean_e R_e + gamma mean_{e<e'} [ mean (mu_e - mu_e')^2 + mean (C_e - C_e')^2 ],
    C_e = (Z_e - mu_e)^T (Z_e - mu_e) / (n_e - 1)

Z_e are the embeddings of the people of site e before the linear head, R_e the cross-entropy there. The mean over pairs
of squared differences is twice the variance over sites, which is how it is computed. Batches hold as many people of
every site. No data of the test site are used: this is domain generalisation, not adaptation. With a single training
site the penalty is 0.

GOOD's released code aligns covariances only and subtracts mu^T mu once instead of n times, which makes it nearly a
match of second moments; here C is the covariance, and means are aligned as in DomainBed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from brainroam.baselines.base import MethodInfo
from brainroam.baselines.deep import People, cross_entropy, site_balanced_batches
from brainroam.baselines.gin import GIN
from brainroam.baselines.layers import Network
from brainroam.baselines.registry import register
