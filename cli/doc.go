// Package cli is the commands of the program berth, which is also the kubectl
// plugin of that name: flags in, API calls, tables or objects out. What the
// figures mean is decided in packages core and kube, not here.
//
// Exit codes: 0 done, 1 error, 2 wrong usage, 3 a check found something, 4 the
// cluster cannot be reached, 5 it did not answer in time.
package cli
