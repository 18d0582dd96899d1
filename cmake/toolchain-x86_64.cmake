# x86-64 Linux programs from another Debian machine: g++-x86-64-linux-gnu, and the headers of the native packages that
# do not depend on the architecture.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-linux-gnu-gcc)  # GoogleTest asks for one
set(CMAKE_CXX_COMPILER x86_64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/x86_64-linux-gnu/pkgconfig)  # not those of this machine
find_program(HEDDLE_QEMU_X86_64 NAMES qemu-x86_64-static qemu-x86_64)
if(HEDDLE_QEMU_X86_64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${HEDDLE_QEMU_X86_64})
endif()
