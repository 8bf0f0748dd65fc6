// Where Python and our Python part are. Looks at the file system only; starts nothing.
#pragma once

#include <string>

namespace stepscope {

// The interpreter beside our binary (a virtual environment's bin/python), else "python3", looked up in PATH by exec.
std::string find_python(const std::string& own_binary);

// The folder whose sitecustomize.py starts our hooks: named by `hint` (STEPSCOPE_PYTHON_DIR: that folder, the package
// or the folder that holds the package), else beside the installed binary, else in the checkout that it was built
// from. "" = not found.
std::string find_inject_folder(const std::string& own_binary, const std::string& hint);

// PYTHONPATH for the training: the inject folder first, then the folder that holds the package when it is not a
// site-packages folder (those are the interpreter's own affair), then what the user had.
std::string python_path(const std::string& inject_folder, const std::string& users_path);

// Path of the running binary, "" when unknown.
std::string own_binary_path();

}  // namespace stepscope
