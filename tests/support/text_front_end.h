// A front end for graphs in text form (graph/text.h), registered from outside the compiler as any other could be.
#pragma once

#include "compile/compile.h"

namespace kiln::test {

FrontEnd text_front_end();

// builtin_tables() and the text front end.
CompilerTables tables_with_text();

}  // namespace kiln::test
