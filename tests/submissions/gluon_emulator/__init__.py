"""Runs Gluon kernels on the CPU: a small Gluon whose tensors are torch's, for what the submissions here use of it.

Gluon has no interpreter, but a kernel's source is Python. `load_gluon` loads a submission with this package in place of
Triton's, and its kernels then run as they are written, one thread block after another. Layouts and bank conflicts mean
nothing here; everything else is held to its contract:

- addresses: a load or store outside its tensor fails, and so do 32-bit offsets that leave 32 bits (`values`);
- memory: what nobody wrote is NaN, and an index beyond an allocation fails (`memory`);
- what is asynchronous on the device is so here: it is done at some later time, at random, at once, or as late as can
  be. To use memory that it still reads or writes fails, as does to let it read what was stored without a fence. Where
  all partitions of warps wait and nothing is left to be done, that is a deadlock (`block`);
- barriers count arrivals and bytes, and have phases (`barriers`); tensor maps are aligned (`copies`); products take
  numbers of TF32 only (`products`).

Sums are torch's, rounded where a tensor core would truncate.

What stands for what is in the Gluon documentation: triton-lang.org, "Gluon", its language API and NVIDIA intrinsics,
and the tutorials python/tutorials/gluon/*.py of Triton's repository, which are named below by their titles.
"""

from gluon_emulator.block import Device
from gluon_emulator.language import load_gluon
from gluon_emulator.values import Value

__all__ = ["Device", "Value", "load_gluon"]
