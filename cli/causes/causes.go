// Package causes is objects that show each cause of core/explain in `berth up`, and in tests.
package causes

import "embed"

// Files are named by the code of their cause: "BERTH-C12.yaml". Objects after a line
// "# state", and status, are what the cluster makes of the others.
//
//go:embed *.yaml
var Files embed.FS
