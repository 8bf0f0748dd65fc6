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

// PYTHONPATH for the training: the inject folder first, then what the user had. (The package itself is found by what
// lies in the inject folder; its parent may be a site-packages folder, full of things that are not the user's.)
std::string python_path(const std::string& inject_folder, const std::string& users_path);

// Path of the running binary, "" when unknown.
std::string own_binary_path();

}  // namespace stepscope
