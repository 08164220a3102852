// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A function that programs find here before they find the C library's. Never inlined into others of this library:
/// their names are the C library's for everybody.
#define SLUICE_EXPORTED extern "C" __attribute__((visibility("default")))
