// 3x3 convolutions by Winograd's minimal filtering.
#include "vectors.h"

namespace CI_ISA {

void winograd(ci_threads*, const void*, const ci_rows&, float*, int64_t) {}

}  // namespace CI_ISA
