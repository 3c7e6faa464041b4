package shell

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is parsed. The parser recurses, and so does eval.
const (
	maxScriptBytes = 64 << 10
	maxNesting     = 60
)

// errUnfinished means that the text ends inside a quote, after an operator or in
// a loop: a reader of lines should add the next one.
var errUnfinished = errors.New("unexpected end of the command line: a quote, an operator or a loop is left open")

// script is a command line that has been checked to hold only what eval runs.
type script struct {
	stmts []*syntax.Stmt
	// patterns is set if a value is matched against a pattern: the time for that
	// grows with the product of their lengths, so both are kept short.
	patterns bool
}

// parse reads a command line as bash does. Its error is errUnfinished or says
// what is not supported.
func parse(text string) (script, error) {
	if len(text) > maxScriptBytes {
		return script{}, fmt.Errorf("a command line of %d bytes: at most %d are read", len(text), maxScriptBytes)
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if syntax.IsIncomplete(err) {
		return script{}, errUnfinished
	}
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		return script{}, fmt.Errorf("syntax error: %s", e.Text)
	}
	if err != nil {
		return script{}, fmt.Errorf("syntax error: %w", err)
	}
	s := script{stmts: file.Stmts}
	depth := 0
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			depth--
			return false
		}
		if depth++; depth > 6*maxNesting && err == nil { // a command in a loop is six nodes deep
			err = errors.New("the command line is nested too deep")
		}
		if err == nil {
			err = s.check(n)
		}
		return true
	})
	return s, err
}

// check refuses a node that eval does not run.
func (s *script) check(n syntax.Node) error {
	switch n := n.(type) {
	case *syntax.File, *syntax.Comment, *syntax.CallExpr, *syntax.Block, *syntax.Subshell, *syntax.IfClause, *syntax.WhileClause,
		*syntax.WordIter, *syntax.CStyleLoop, *syntax.ArithmCmd, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted,
		*syntax.ArithmExp, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm:
		return nil
	case *syntax.CaseClause:
		s.patterns = true
		return nil
	case *syntax.CaseItem:
		if n.Op == syntax.Break {
			return nil
		}
	case *syntax.Stmt:
		if n.Background || n.Coprocess || n.Disown {
			return errors.New("& is not supported: nothing runs in the background of a simulated container")
		}
		return nil
	case *syntax.BinaryCmd:
		if n.Op == syntax.PipeAll {
			return errors.New("|& is not supported: write 2>&1 |")
		}
		return nil
	case *syntax.ForClause:
		if !n.Select {
			return nil
		}
	case *syntax.DeclClause:
		if n.Variant.Value == "export" {
			return nil
		}
	case *syntax.Assign:
		if n.Array == nil && n.Index == nil {
			return nil
		}
	case *syntax.CmdSubst:
		if !n.TempFile && !n.ReplyVar {
			return nil
		}
	case *syntax.ParamExp:
		return s.checkParam(n)
	case *syntax.Redirect:
		return checkRedirect(n)
	}
	return fmt.Errorf("%s is not supported by this simulated shell", describe(n))
}

// describe names a construct that is refused.
func describe(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.FuncDecl:
		return "a function"
	case *syntax.TestClause:
		return "[[ ]]: write [ ]; it"
	case *syntax.ForClause:
		return `"select"`
	case *syntax.DeclClause:
		return fmt.Sprintf("%q", n.Variant.Value)
	case *syntax.LetClause:
		return `"let"`
	case *syntax.TimeClause:
		return `"time"`
	case *syntax.CoprocClause:
		return `"coproc"`
	case *syntax.ProcSubst:
		return "process substitution"
	case *syntax.Assign, *syntax.ArrayExpr:
		return "an array"
	case *syntax.ExtGlob:
		return "an extended pattern"
	}
	return "this"
}

// checkParam admits the expansions of POSIX and substrings.
func (s *script) checkParam(n *syntax.ParamExp) error {
	known := n.Param != nil && n.Index == nil && !n.Excl && !n.Width && !n.IsSet && n.Names == 0 && n.Repl == nil && len(n.Modifiers) == 0
	if n.Exp != nil {
		switch n.Exp.Op {
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
			syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			s.patterns = true
		default:
			known = false
		}
	}
	if !known {
		return errors.New("${...} is not supported in this form: only ${NAME}, ${#NAME}, ${NAME:offset:length} and ${NAME} with - = + ? # or % are")
	}
	return nil
}

// checkRedirect refuses what would write a file.
func checkRedirect(n *syntax.Redirect) error {
	target := n.Word.Lit()
	fd := ""
	if n.N != nil {
		fd = n.N.Value
	}
	switch n.Op {
	case syntax.Hdoc, syntax.WordHdoc, syntax.RdrIn:
		if fd == "" || fd == "0" {
			return nil
		}
	case syntax.DplOut:
		if (fd == "" || fd == "1" || fd == "2") && (target == "1" || target == "2") {
			return nil
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		if (fd == "" || fd == "1" || fd == "2") && target == "/dev/null" {
			return nil
		}
	default:
	}
	return errors.New("redirection: a simulated container has no files; only < FILE, <<, <<<, > /dev/null, 2>&1 and 1>&2 are supported")
}

// unfinished reports whether text needs another line before it can be run.
func unfinished(text string) bool {
	_, err := parse(text)
	return errors.Is(err, errUnfinished)
}
