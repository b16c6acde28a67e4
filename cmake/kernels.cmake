# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

# The C++ kernels: one library with a C interface, loaded by ctypes from its place in the Python package.
set(kernel_folder ${PROJECT_NAME}/engine/kernels)

file(GLOB kernel_sources CONFIGURE_DEPENDS ${kernel_folder}/native/*.cpp)
file(GLOB isa_sources CONFIGURE_DEPENDS ${kernel_folder}/native/isa/*.cpp)
add_library(cacheinf_kernels SHARED ${kernel_sources})

# All instruction sets round alike there: see isa/vectors.h.
file(GLOB int8_sources CONFIGURE_DEPENDS ${kernel_folder}/native/isa/int8_*.cpp)
set_source_files_properties(${int8_sources} PROPERTIES COMPILE_OPTIONS "-DCI_ROUND_ALIKE;-ffp-contract=off")
# So that a GPU decides alike which pixels of a frame have changed.
set_source_files_properties(${kernel_folder}/native/isa/input.cpp PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")

set(CACHEINF_SANITIZE "" CACHE STRING "Sanitizers to compile the kernels with, as address,undefined or thread: for `make sanitize`")

function(set_kernel_options target)
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_compile_options(${target} PRIVATE -O3 -fno-math-errno -ffp-contract=fast -pthread)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  if(CACHEINF_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${CACHEINF_SANITIZE} -fno-omit-frame-pointer -g1 -O1)
    target_link_options(${target} PRIVATE -fsanitize=${CACHEINF_SANITIZE})
  endif()
endfunction()

# Compiled once per instruction set; which one runs is decided on the machine that it runs on.
function(add_instruction_set isa)
  add_library(cacheinf_${isa} OBJECT ${isa_sources})
  set_kernel_options(cacheinf_${isa})
  target_compile_definitions(cacheinf_${isa} PRIVATE CACHEINF_ISA=${isa})
  target_compile_options(cacheinf_${isa} PRIVATE ${ARGN})
  target_sources(cacheinf_kernels PRIVATE $<TARGET_OBJECTS:cacheinf_${isa}>)
endfunction()

add_instruction_set(base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_instruction_set(avx2 -mavx2 -mfma)
  add_instruction_set(avx512 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  add_instruction_set(dotprod -march=armv8.2-a+dotprod)
  add_instruction_set(i8mm -march=armv8.2-a+dotprod+i8mm+bf16)
endif()

set_kernel_options(cacheinf_kernels)
target_link_options(cacheinf_kernels PRIVATE -pthread)
install(TARGETS cacheinf_kernels DESTINATION ${PYTHON_INSTALL_DIR}/${kernel_folder})
