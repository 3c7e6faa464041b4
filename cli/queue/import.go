package queue

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/queueimport"
)

// importer is `berth queue import`.
type importer struct {
	o    client.Options
	file string
}

func newImport(o client.Options) *cobra.Command {
	m := &importer{o: o}
	cmd := &cobra.Command{
		Use:   "import -f FILE",
		Short: "Make Queues of the queues and quotas of Kueue, KAI, Volcano, and Kubernetes",
		Long: "Read Kueue's ClusterQueues, Cohorts, LocalQueues, and ResourceFlavors, KAI's and Volcano's Queues, and\n" +
			"ResourceQuotas, and print Queues as YAML. Comments before them list the fields that a Queue does not have, or\n" +
			"that work otherwise. No cluster is needed, and nothing is written.",
		Example: "  kubectl get clusterqueues,cohorts,resourceflavors,localqueues -A -o yaml | berth queue import -f - > queues.yaml\n" +
			"  berth queue check -f queues.yaml",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return m.run() },
	}
	cmd.Flags().StringVarP(&m.file, "filename", "f", "", "file with the objects; - is standard input")
	return cmd
}

func (m *importer) run() error {
	if m.file == "" {
		return term.Usagef("-f is missing: name a file with queues of another scheduler, or ResourceQuotas")
	}
	objects, err := client.ReadFile(m.o, m.file, client.Objects)
	if err != nil {
		return err
	}
	list := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		list[i] = o.Unstructured
	}
	r, err := queueimport.Import(list)
	if err != nil {
		return fmt.Errorf("import %s: %w", m.file, err)
	}
	if len(r.Queues) == 0 {
		for _, n := range r.Notes {
			term.PrintLine(m.o.Err, noteText(&n))
		}
		return fmt.Errorf("%s: it has no queue of Kueue, KAI, or Volcano, and no ResourceQuota of GPUs", m.file)
	}
	return m.print(r)
}

// noteText is a note in a line.
func noteText(n *queueimport.Note) string {
	if n.Field == "" {
		return n.Object + ": " + n.Text
	}
	return n.Object + ": " + n.Field + ": " + n.Text
}

// print prints the notes as comments, and the Queues.
func (m *importer) print(r queueimport.Result) error {
	for _, n := range r.Notes {
		term.PrintLine(m.o.Out, "# "+noteText(&n))
	}
	var yaml term.YAMLPrinter
	for _, q := range r.Queues {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
		if err != nil {
			return fmt.Errorf("write Queue %s: %w", q.Name, err)
		}
		delete(object, "status")
		if err := yaml.PrintObj(&unstructured.Unstructured{Object: object}, term.Exact(m.o.Out)); err != nil {
			return err
		}
	}
	return nil
}
