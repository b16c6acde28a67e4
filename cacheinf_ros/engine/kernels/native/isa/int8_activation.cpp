// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// The activations once more, compiled as everything that makes levels: see CI_ROUND_ALIKE in vectors.h.
#include "activation.cpp"
