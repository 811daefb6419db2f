#!/usr/bin/perl
# The mutants: what they break, where, and who kills them (README.md). Run from the top of the project.
#
#	mutate.pl list              a line each: NAME, tab, KILLER, tab, FILE…
#	mutate.pl show NAME         what it breaks, in words and lines
#	mutate.pl make NAME TREE    breaks it in TREE, a copy of the project
#
# Whatever is called, all are read and compared with the sources first: one that does not stand there exactly once is said
# so, and the exit code is 1.
use strict;
use warnings;

my (@mutants, %by_name, %text);
my $bad = 0;

sub wrong {
	print STDERR "@_\n";
	$bad = 1;
}

sub slurp {
	my ($path) = @_;
	open my $in, '<', $path or return undef;
	local $/;
	return scalar <$in>;
}

sub add {
	my ($mutant) = @_;
	wrong("$mutant->{place}: two mutants are called $mutant->{name}") if $by_name{$mutant->{name}};
	push @mutants, $by_name{$mutant->{name}} = $mutant;
	return $mutant;
}

# A line of a mutant: "guards FILE: FUNCTION", "- old", "+ new". Lines of one sign in a row belong together.
sub take {
	my ($mutant, $line) = @_;
	if ($line =~ /^\s*guards\s+([^\s:]+)/) {
		$mutant->{file} = $1;
		$mutant->{last} = '';
	} elsif ($mutant->{file} && $line =~ /^\s+([-+])(?:\s(.*))?$/) {
		my ($sign, $words) = ($1, defined $2 ? $2 : '');
		push @{$mutant->{pairs}}, {file => $mutant->{file}, '-' => [], '+' => []}
			if $sign eq '-' && $mutant->{last} ne '-';
		return wrong("$mutant->{place}: a + without a -") unless $mutant->{pairs};
		push @{$mutant->{pairs}[-1]{$sign}}, $words;
		$mutant->{last} = $sign;
	}
}

# A scenario: its first comment. It is played to kill its own mutant.
sub read_scenario {
	my ($path) = @_;
	my ($name) = $path =~ m{([^/]+)\.spec$};
	my $mutant = add({name => $name, place => $path, killer => "scenario $name", last => ''});
	for (split /\n/, slurp($path)) {
		last unless s/^#//;
		$mutant->{title} = $1 if !$mutant->{title} && /^\s*(\S.*)/;
		take($mutant, $_);
	}
}

# A list of mutants that other tests kill: "mutant NAME: what is broken", its lines, "killed by FOLDER/PROGRAM".
sub read_list {
	my ($path) = @_;
	my $mutant;
	for (split /\n/, slurp($path)) {
		next if /^#/ || /^\s*$/;
		if (/^mutant ([\w-]+): (.+)/) {
			$mutant = add({name => $1, place => "$path: $1", title => $2, last => ''});
		} elsif ($mutant && /^killed by (\S.*)/) {
			$mutant->{killer} = $1;
			wrong("$mutant->{place}: there is no tests/$1.c") unless -f "tests/$1.c";
		} elsif ($mutant) {
			take($mutant, $_);
		}
	}
}

# The sources with the mutant's lines in place, by file.
sub broken {
	my ($mutant) = @_;
	my %new;
	wrong("$mutant->{place}: guards nothing (guards FILE: FUNCTION, - line, + line)") unless $mutant->{pairs};
	wrong("$mutant->{place}: nothing kills it (killed by FOLDER/PROGRAM)") unless $mutant->{killer};
	for my $pair (@{$mutant->{pairs}}) {
		my $name = $pair->{file};
		$text{$name} = slurp($name) unless exists $text{$name};
		unless (defined $text{$name}) {
			wrong("$mutant->{place}: there is no $name");
			next;
		}
		$new{$name} = $text{$name} unless exists $new{$name};
		my $old = join '\s*\n\s*', map { my $line = $_; $line =~ s/^\s+|\s+$//g; quotemeta $line } @{$pair->{'-'}};
		my $count = () = $new{$name} =~ /$old/g;
		if ($count != 1) {
			wrong("$mutant->{place}: stands $count times in $name, not once: @{$pair->{'-'}}");
			next;
		}
		my $put = join "\n", @{$pair->{'+'}};
		$new{$name} =~ s/$old/$put/;
		wrong("$mutant->{place}: changes nothing in $name") if $new{$name} eq $text{$name};
	}
	return \%new;
}

my ($what, $name, $tree) = @ARGV;
read_scenario($_) for sort glob 'tests/spec/*.spec';
read_list($_) for sort glob 'tests/mutants/*.mutants';
my %broken = map { $_->{name} => broken($_) } @mutants;
exit 1 if $bad;
die "mutate.pl list | show NAME | make NAME TREE\n" unless defined $what;
if ($what eq 'list') {
	print join("\t", $_->{name}, $_->{killer}, join ' ', sort keys %{$broken{$_->{name}}}), "\n" for @mutants;
	exit 0;
}
die "no mutant is called $name\n" unless $by_name{$name};
if ($what eq 'show') {
	print "$name: $by_name{$name}{title}\n";
	for my $pair (@{$by_name{$name}{pairs}}) {
		print "  $pair->{file}\n";
		for my $sign ('-', '+') {
			print "  $sign $_\n" for @{$pair->{$sign}};
		}
	}
} elsif ($what eq 'make') {
	for my $file (sort keys %{$broken{$name}}) {
		open my $out, '>', "$tree/$file" or die "$tree/$file: $!\n";
		print $out $broken{$name}{$file};
		close $out or die "$tree/$file: $!\n";
	}
}
