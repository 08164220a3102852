// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which of Highway's instruction sets ilp/ is compiled for. To be included before anything of Highway, by every file
// that includes ilp/pipeline-inl.h or goes through the targets.

/// A scalable vector has no size at compile time and cannot be a stage's member; CPUs with SVE run the NEON kernels.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

/// Highway compiles for CPUs with AVX-512 VNNI and its companions only when asked to: ilp/dot_product-inl.h uses them.
#define HWY_WANT_AVX3_DL

/// Where there are no vectors Highway can emulate them by loops over bytes. The words of ilp/words.h are faster.
#define HWY_BROKEN_EMU128 1
