#!/bin/sh
# A scenario counts only if breaking the line it guards turns it red. Each file names such a line in its first comment:
#
#	# guards src/inventory/loader.c: fill
#	#   - old[i] = s->tickets[which[i]];
#	#   + old[i] = TEXT("");
#
# Lines of one kind in a row belong together; blanks at their ends do not matter; what is replaced stands exactly once in
# the file. Several pairs are one mutant.
#
# usage: mutants.sh --check [NAME...]     every scenario guards a line that is there (fast)
#        mutants.sh [NAME...]             builds each mutant in a copy and plays its scenario, which must fail
#        mutants.sh --keep DIR [NAME...]  the same in DIR, which is kept for the next time
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
check= copy=
case ${1:-} in
--check) check=1; shift ;;
--keep) copy=$2; shift 2 ;;
esac
if [ -z "$copy" ]; then
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
fi

# mutate SPEC ROOT: prints "FILE" per changed file after writing FILE.mutant; fails with a sentence.
mutate() {
	perl -we '
		use strict;
		my ($spec, $root) = @ARGV;
		my (%text, @pairs, $file);
		open my $in, "<", $spec or die "$spec: $!\n";
		my $last = "";
		while (<$in>) {
			last unless /^#/;
			if (/^#\s+guards\s+([^\s:]+)/) { $file = $1; $last = ""; }
			elsif ($file && /^#\s+([-+])(?:\s(.*))?$/) {
				my ($sign, $line) = ($1, defined $2 ? $2 : "");
				push @pairs, {file => $file, old => [], new => []} if $sign eq "-" && $last ne "-";
				die "$spec: a + without a -\n" unless @pairs;
				push @{$pairs[-1]{$sign eq "-" ? "old" : "new"}}, $line;
				$last = $sign;
			}
		}
		@pairs or die "$spec: guards nothing (# guards FILE: FUNCTION, - line, + line)\n";
		for my $pair (@pairs) {
			my $name = $pair->{file};
			if (!exists $text{$name}) {
				open my $f, "<", "$root/$name" or die "$spec: $name: $!\n";
				local $/;
				$text{$name} = <$f>;
			}
			my $old = join "\\s*\\n\\s*", map { my $l = $_; $l =~ s/^\s+|\s+$//g; quotemeta $l } @{$pair->{old}};
			my $count = () = $text{$name} =~ /$old/g;
			$count == 1 or die "$spec: stands $count times in $name, not once: @{$pair->{old}}\n";
			my $new = join "\n", @{$pair->{new}};
			$text{$name} =~ s/$old/$new/;
		}
		for my $name (sort keys %text) {
			if (@ARGV > 2) {
				open my $out, ">", "$root/$name" or die "$name: $!\n";
				print $out $text{$name};
			}
			print "$name\n";
		}
	' "$@"
}

bad=0
if [ $# -eq 0 ]; then
	for spec in tests/spec/*.spec; do
		set -- "$@" "$(basename "$spec" .spec)"
	done
fi
for name; do
	mutate "tests/spec/$name.spec" "$root" >/dev/null || bad=1
done
if [ -n "$check" ] || [ $bad -ne 0 ]; then
	[ $bad -ne 0 ] || echo "$# scenarios guard lines that are there"
	exit $bad
fi

# One copy and one build directory for all: a mutant is a recompiled file or two.
mkdir -p "$copy/tree"
for part in Makefile include src lua sql; do
	rm -rf "${copy:?}/tree/$part"
	cp -Rp "$part" "$copy/tree/$part"
done
build() {
	make -s -C "$copy/tree" MODE=sync BUILD="$copy/build" "$copy/build/lastunit" >"$copy/make.log" 2>&1
}
runner=${SPEC_TEST:-${BUILD:-build/release}/tests/spec/spec_test}
[ -x "$runner" ] || { echo "mutants: no $runner: make tests"; exit 2; }
build || { cat "$copy/make.log"; echo "mutants: the copy does not build"; exit 2; }
for name; do
	changed=$(mutate "tests/spec/$name.spec" "$copy/tree" write)
	if ! build; then
		cat "$copy/make.log"
		echo "$name: the mutant does not build"
		bad=1
	elif LASTUNIT_SYNC_BIN=$copy/build/lastunit LASTUNIT_SPEC_PATIENCE_MS=${PATIENCE_MS:-6000} timeout 300 \
		"$runner" "$name" >"$copy/$name.log" 2>&1; then
		echo "$name: still green without the line it guards"
		bad=1
	else
		echo "$name: red, as it should be: $(grep -A1 "^  tests/spec/$name.spec:" "$copy/$name.log" | tr -s ' \n' ' ' | cut -c1-200)"
	fi
	for file in $changed; do
		cp -p "$root/$file" "$copy/tree/$file"
		touch "$copy/tree/$file"
	done
done
exit $bad
