#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstdlib>

#include "agent/agent_loop.h"
#include "cli/agent_link.h"
#include "cli/live_server.h"
#include "cli/node_door.h"
#include "cli/verbs.h"

namespace stepscope {

int verb_agent() {
  struct stat info;
  if (::fstat(3, &info) != 0 || !S_ISSOCK(info.st_mode)) {
    say("agent: started by stepscope run only");
    return kExitUsage;
  }
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_NAME, "stepscope-agent");
  const int code = run_agent(ControlChannel(Fd(3)), make_live_server, open_node_door);
  std::_Exit(code);  // an answer that is still being worked out for a browser must not hold up the end of the run
}

}  // namespace stepscope
