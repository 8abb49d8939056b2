#!/bin/sh
# System packages for the tests, on Debian and Ubuntu.
#
#   install [CMD]  install what is missing if we may (root, or sudo without a password):
#                  everything, or only the commands named
#   report         say which tests were left out for want of a tool
#   venv PYTHON    make sure that `PYTHON -m venv` works
#
# With NEED_ALL=1, `install` fails where a tool is still missing.
set -eu

# command:package:what is left out without it
tools='
gcc:gcc:the tests that compile and run the generated C
g++:g++:the tests of the nnet engine
arm-none-eabi-gcc:gcc-arm-none-eabi libnewlib-arm-none-eabi:the tests that cross-compile for Cortex-M
qemu-system-arm:qemu-system-arm:the tests that run Cortex-M code in an emulator
aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu libc6-dev-arm64-cross:the tests that compile for 64-bit Arm
qemu-aarch64:qemu-user:the tests that run 64-bit Arm code
riscv64-linux-gnu-gcc:gcc-riscv64-linux-gnu libc6-dev-riscv64-cross:the tests that compile for 64-bit RISC-V
clang-19:clang-19:the tests of RISC-V vectors, for which gcc 12 has no functions
qemu-riscv64:qemu-user:the tests that run 64-bit RISC-V code
riscv64-unknown-elf-gcc:gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf:the tests that cross-compile for 32-bit RISC-V
qemu-riscv32:qemu-user:the tests that run 32-bit RISC-V code
xtensa-lx106-elf-gcc:gcc-xtensa-lx106 picolibc-xtensa-lx106-elf:the tests that cross-compile for Xtensa
qemu-system-xtensa:qemu-system-misc:the tests that run Xtensa code
verilator:verilator make g++:the tests that run generated circuits
frama-c:frama-c-base:the proofs that generated C accesses nothing out of range
cppcheck:cppcheck:the check of MISRA rules
chromium:chromium:the tests that open reports in a browser
mlir-opt-19:mlir-19-tools:the tests that hold our IR to the upstream mlir-opt
'

missing() { # the lines of $tools whose command is not there, of those named if any are
    printf '%s' "$tools" | while IFS=: read -r command packages loss; do
        [ -z "$command" ] && continue
        [ $# -eq 0 ] || case " $* " in *" $command "*) ;; *) continue ;; esac
        command -v "$command" >/dev/null 2>&1 ||
            printf '%s:%s:%s\n' "$command" "$packages" "$loss"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

apt_install() { # one by one, so that a package that this release lacks stops no other
    command -v apt-get >/dev/null 2>&1 && as_root true || return 1
    as_root apt-get update -qq || true
    for package in "$@"; do
        echo "installing $package"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends "$package" >/dev/null || echo "could not install $package"
    done
}

report() {
    missing "$@" | {
        count=0
        while IFS=: read -r command packages loss; do
            [ $count -gt 0 ] || echo "======== LEFT OUT, because a tool is missing ========"
            count=$((count + 1))
            echo "$loss (needs $command: apt-get install $packages)"
        done
        [ $count -eq 0 ]
    }
}

case "$1" in
install)
    shift
    packages=$(missing "$@" | cut -d: -f2)
    # shellcheck disable=SC2086
    [ -z "$packages" ] || apt_install $packages || true
    if ! report "$@" >&2 && [ "${NEED_ALL:-}" = 1 ]; then
        echo "NEED_ALL=1: nothing may be left out" >&2
        exit 1
    fi
    ;;
report)
    report || true
    ;;
venv)
    if ! "$2" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "Python 3.11 or later is needed; name one with PYTHON=python3.x" >&2
        exit 1
    fi
    if ! "$2" -c 'import ensurepip, venv' 2>/dev/null; then
        apt_install python3-venv || true
        if ! "$2" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "'$2 -m venv' does not work: apt-get install python3-venv" >&2
            exit 1
        fi
    fi
    ;;
esac
