"""What judging runs on: processes of this machine, its devices, or no sandbox at all."""
