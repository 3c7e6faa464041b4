package shell

import "fmt"

// getentCommand is getent hosts NAME..., which asks the cluster's DNS. Its exit code is 2 if a name is unknown, as getent's is.
func getentCommand(p *process) int {
	if len(p.args) < 2 || p.args[0] != "hosts" && p.args[0] != "ahosts" {
		return p.fail(1, "a simulated container has only the database of hosts: getent hosts NAME")
	}
	code := 0
	for _, name := range p.args[1:] {
		full, ips := name, []string{"127.0.0.1"}
		if name != "localhost" && p.sh.m.Resolve != nil {
			full, ips = p.sh.m.Resolve(p.ctx, name)
		} else if name != "localhost" {
			ips = nil
		}
		if len(ips) == 0 {
			code = 2
		}
		for _, ip := range ips {
			fmt.Fprintf(p.stdout, "%-15s %s\n", ip, full)
		}
	}
	return code
}
