package cli

import (
	"context"
	"fmt"
)

// fromCluster reads nodes, what runs on them and, as what comes, all pods.
func (s *simulateCommand) fromCluster(ctx context.Context) (simulateInput, error) {
	return simulateInput{}, fmt.Errorf("not yet")
}
